"""Import an HTCondor pool's files into a log, each once, as far as they have grown.

``folders`` recognizes, lists and orders a folder's files, ``content`` reads bytes of any compression,
``time_zones`` finds zones, ``source_registry`` knows the sources in the log; ``driver`` imports, ``session`` serves
commands.
"""
