"""`autotune memory`: where the memory of a training step goes, and which batch size fits."""
