module sdk

go 1.25

require github.com/apache/rocketmq-clients/golang/v5 v5.1.4
