"""What Prometheus is told: `catalogue` declares what is looked up at each scrape, `looks` looks it up, and `scraping`
makes the answer from that and from what processes have measured. `documentation` makes the page of all metrics."""
