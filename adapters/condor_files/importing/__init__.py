"""The import: folders of a real pool's files into a log, once each, as far as they have grown.

* ``detect`` tells what a file is, ``folders`` which files a folder has and in what order they were written.
* ``content`` reads bytes, whatever compresses them; ``time_zones`` finds the zone of a file's times.
* ``source_registry`` knows what the log has of each file already; ``driver`` imports, ``session`` for commands.

The readers of the files are in ``adapters/condor_files``.
"""

if __name__ != "poolbook.adapters.condor_files.importing":
    raise ImportError(f"import this folder as poolbook.adapters.condor_files.importing, not as {__name__}")
