"""Import the files of an HTCondor pool into a log; a repeated import reads only new content.

``folders`` recognizes, lists and sorts the files in a directory, ``content`` reads plain or compressed bytes,
``time_zones`` determines time zones, ``source_recognition`` identifies the sources already in the log; ``driver``
performs the import, ``session`` is the interface for commands.
"""
