"""One module per use case. Decides what happens; knows neither HTTP nor SQL."""
