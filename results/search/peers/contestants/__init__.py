"""The peers: one module each, with `tune(task) -> Final`. Each runs in a process and an environment of its own."""
