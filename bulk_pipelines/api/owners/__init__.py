"""Who asks: `callers` finds out, by `keys`, `sessions` or what a proxy says; `quotas` has the limits of an owner, and
`admission` keeps them."""
