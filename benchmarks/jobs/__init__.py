"""Shipped jobs: on Spark beside Spark SQL, and ride summaries with very many open rides."""
