"""Words that every answer to people shares: instants, amounts, and the sentences of ``why``."""

if __name__ != "poolbook.replay.narration":
    raise ImportError(f"import this folder as poolbook.replay.narration, not as {__name__}")
