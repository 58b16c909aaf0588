"""Tells somebody outside that a round waits for them: what `services.waits` leaves, by a signed webhook."""
