"""Figures and text for people, wherever they are shown: in a terminal, a file, a page."""
