"""A decision in progress: the draft to which the rules for stimuli write their events."""
