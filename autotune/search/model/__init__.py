"""What the search believes about configs: time, memory and failures. Pure numpy, no torch, no Optuna."""
