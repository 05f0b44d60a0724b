"""report.html: one file that holds everything and opens offline.

evidence.py gathers what is shown, plots/ has one module a plot, page.py puts text, tables and figures into
page.html with page.css and page.js. vendor/ holds Plotly (MIT): its basic bundle draws, labels and answers to
pointers in 1.2 MB, where the whole library would take 5 MB.
"""
