"""What makes the manual: the site from docs/, the pages that are written from the code, and the pictures."""
