"""The compiled half of the search; nothing else in the model needs it."""
