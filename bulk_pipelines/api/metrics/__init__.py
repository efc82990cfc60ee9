"""What Prometheus is told: `catalogue` declares what is looked up at each scrape, `looks` are the looks, and `scraping`
makes the answer of them and of what processes have measured."""
