"""Apache Kafka: predictions in, prior updates out."""
