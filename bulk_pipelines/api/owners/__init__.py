"""Who asks: `callers` finds out, by `keys` or by what a proxy says; `quotas` says how much an owner may have."""
