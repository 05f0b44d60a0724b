"""What a probe finds out of a workload, by building it once and running a step; parts of it serve scripts, too."""
