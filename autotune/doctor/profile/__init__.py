"""`autotune profile`: a trace of a few steady steps, and the heaviest operations before and after."""
