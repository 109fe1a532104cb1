"""Text for users: formats of instants and amounts, and the sentences of ``why``."""
