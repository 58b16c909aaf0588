"""What an uplink gives away: every attack we know of, on what a member would really send."""
