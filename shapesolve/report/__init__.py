"""Reports: one module per medium. The other rooms produce data, this one makes text."""
