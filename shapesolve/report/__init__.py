"""Reports of an analysis, with one module per output format. All other packages produce data; this one formats it."""
