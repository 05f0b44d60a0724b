"""`autotune init`: from what was seen while a script ran to a workload of factories, as a person would write it."""
