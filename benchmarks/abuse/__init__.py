"""An analyst's server under abuse by strangers, while a consortium plays its rounds."""
