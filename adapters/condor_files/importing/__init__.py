"""Import a real pool's files into a log, each once, as far as they have grown.

``detect`` recognizes a file, ``folders`` lists and orders a folder's files, ``content`` reads bytes of any compression,
``time_zones`` finds zones, ``source_registry`` knows the sources in the log; ``driver`` imports, ``session`` serves
commands.
"""

if __name__ != "poolbook.adapters.condor_files.importing":
    raise ImportError(f"import this folder as poolbook.adapters.condor_files.importing, not as {__name__}")
