"""What the numerics guard compares: runs on the same samples, from the same weights, without randomness.

    batches   samples.py: a fixed list, drawn once; quiet.py: dropout and the like off
    runs      observe.py: one after the other; only gradients and figures stay, on the host
    verdict   rules.py, over the norms and angles of vectors.py

The order of the runs is in trials/numerics.py; the figures that a record keeps are in autotune/numerics.py.
"""
