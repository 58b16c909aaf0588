"""An institution's own pages in a browser on this machine: `odc ui`.

The pages show what the use cases of `user_client.sdk` return, and every act calls one of them. They listen on
the loopback alone, and a page loads from nowhere else: nothing of a table or of a prediction leaves this
machine by them (docs/adr/0053). `entry` says who may look, `work` does what takes longer than a page may,
`looking` and `acting` are the pages, and `serving` starts and ends them.
"""

from user_client.ui.serving import serve_pages

__all__ = ["serve_pages"]
