"""Words that every answer to people shares: instants, amounts, and the sentences of ``why``."""
