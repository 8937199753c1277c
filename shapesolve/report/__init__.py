"""Reports of an analysis; one module per output format. The other rooms produce data, this one makes text."""
