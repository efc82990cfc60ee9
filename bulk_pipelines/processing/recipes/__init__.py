"""What people declare: recipes, their columns, variants and budgets, and where the declarations are found."""
