"""The doctor: what no option can fix, measured on the user's workload. One module a check, under checks/."""
