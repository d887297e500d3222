package orders

import (
	"net"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// newCluster starts a cluster in a container of its own, on free ports; the test's end stops it.
func newCluster(t *testing.T) *testcontainers.DockerContainer {
	free := must(net.Listen("tcp", "127.0.0.1:0"))
	_, broker, _ := net.SplitHostPort(free.Addr().String()) // the broker tells it to clients: inside as outside
	free.Close()
	cluster, err := testcontainers.Run(t.Context(), "pocketmq",
		testcontainers.WithCmd("--clock", "manual"),
		testcontainers.WithEnv(map[string]string{"POCKETMQ_CLUSTER_BROKER_PORT": broker, "POCKETMQ_CONTROL_TOKEN": "of-this-test"}),
		testcontainers.WithExposedPorts("9876/tcp", "9870/tcp", broker+"/tcp"),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.PortBindings = network.PortMap{network.MustParsePort(broker + "/tcp"): {{HostPort: broker}}}
		}),
		testcontainers.WithWaitStrategy(wait.ForHealthCheck()))
	testcontainers.CleanupContainer(t, cluster)
	return must(cluster, err)
}
