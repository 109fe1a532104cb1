"""A decision in progress: the draft in which rules for stimuli record events."""
