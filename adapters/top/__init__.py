"""``poolbook top``: shows a pool in the terminal. ``places`` decides what is shown, ``app`` shows it with textual."""
