"""What commands share at a terminal: `commanding` says who gives a command, `watching` follows the job that came of it,
and `progress_bar` shows how far it is.
"""
