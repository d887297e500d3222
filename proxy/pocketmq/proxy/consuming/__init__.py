"""What consumers ask, carried out by requests to brokers: receive, ack, hide, give up."""
