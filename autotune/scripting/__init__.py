"""Unmodified scripts: run as they are, with a config applied from outside and the training's steps found by hooks."""
