"""What Prometheus is told: `catalogue` declares what is looked up at each scrape, `looks` are the looks, `scraping` makes
the answer of them and of what processes have measured."""
