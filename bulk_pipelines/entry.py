"""Where the program `bulk` begins. A Ctrl-C before the command line is there ends it in silence, where Python would
show in which of its imports it was."""

import signal


def main() -> None:
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell's background ignores it
    if heeded:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bulk_pipelines import cli

    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
