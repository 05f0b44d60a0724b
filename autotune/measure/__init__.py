"""The method of measurement: phases of a trial, timed blocks and their statistics, memory, contention, validity."""
