"""The files of a distribution: their data, where they go, and the `registry` of those that there are for `reuse`."""
