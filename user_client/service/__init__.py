"""A local REST service: predictions for the institution's own systems, from the model that came back."""

from user_client.service.serving import Listening, read_or_create_token, serve

__all__ = ["Listening", "read_or_create_token", "serve"]
