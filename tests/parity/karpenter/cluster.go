package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/awslabs/operatorpkg/object"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"
)

// shop is Karpenter's fake provider with a catalogue of ours.
type shop struct {
	*fake.CloudProvider
	byPool map[string][]*cloudprovider.InstanceType
}

func (s shop) GetInstanceTypes(_ context.Context, pool *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return s.byPool[pool.Name], nil
}

type silence struct{}

func (silence) Publish(...events.Event) {}

// cluster is the API server and Karpenter's memory of it.
type cluster struct {
	client      client.Client
	state       *state.Cluster
	provisioner *provisioning.Provisioner
}

func newCluster(ctx context.Context, world *World) (*cluster, error) {
	byPool, err := world.instanceTypes()
	if err != nil {
		return nil, err
	}
	provider := shop{CloudProvider: fake.NewCloudProvider(), byPool: byPool}
	adopt(world, provider)
	kube := clientfake.NewClientBuilder().WithScheme(scheme.Scheme).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).
		WithIndex(&corev1.Node{}, "spec.providerID", func(o client.Object) []string {
			return []string{o.(*corev1.Node).Spec.ProviderID}
		}).
		WithIndex(&v1.NodeClaim{}, "status.providerID", func(o client.Object) []string {
			return []string{o.(*v1.NodeClaim).Status.ProviderID}
		}).
		WithIndex(&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName}
		}).
		WithObjects(world.objects()...).
		WithInterceptorFuncs(interceptor.Funcs{Get: getClusterWide, List: listOn(world)}).
		Build()
	made := &cluster{client: kube, state: state.NewCluster(clock.RealClock{}, kube, provider)}
	if err := made.observe(ctx, world); err != nil {
		return nil, err
	}
	made.provisioner = provisioning.NewProvisioner(
		kube, silence{}, provider, made.state, clock.RealClock{},
		deviceallocation.NewController(kube), virtualpods.NewVirtualPodCache(kube),
	)
	return made, nil
}

// getClusterWide drops the namespace from look-ups of objects that have none, as an API server does;
// the fake one would not find them.
func getClusterWide(
	ctx context.Context, under client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption,
) error {
	switch into.(type) {
	case *corev1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSINode:
		key.Namespace = ""
	}
	return under.Get(ctx, key, into, opts...)
}

// listOn answers "the pods of this node" from a map: the fake API server would look through all
// pods for every node.
func listOn(
	world *World,
) func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
	byNode := map[string][]corev1.Pod{}
	for _, pod := range world.Pods {
		byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
	}
	return func(ctx context.Context, under client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		asked := (&client.ListOptions{}).ApplyOptions(opts)
		pods, isPods := list.(*corev1.PodList)
		if isPods && asked.FieldSelector != nil {
			if node, exact := asked.FieldSelector.RequiresExactMatch("spec.nodeName"); exact {
				pods.Items = (&corev1.PodList{Items: byNode[node]}).DeepCopy().Items
				return nil
			}
		}
		return under.List(ctx, list, opts...)
	}
}

// adopt points pools and claims at the node class that the fake provider owns, and gives pools that
// are Ready the conditions from which Karpenter works that out.
func adopt(world *World, provider shop) {
	kind := object.GVK(provider.GetSupportedNodeClasses()[0])
	ref := &v1.NodeClassReference{Group: kind.Group, Kind: kind.Kind, Name: "default"}
	for i := range world.NodePools {
		pool := &world.NodePools[i]
		pool.Spec.Template.Spec.NodeClassRef = ref
		ready := slices.ContainsFunc(pool.Status.Conditions, func(one status.Condition) bool {
			return one.Type == status.ConditionReady && one.Status == metav1.ConditionTrue
		})
		if ready {
			conditions := pool.StatusConditions()
			conditions.SetTrue(v1.ConditionTypeValidationSucceeded)
			conditions.SetTrue(v1.ConditionTypeNodeClassReady)
		}
	}
	for i := range world.NodeClaims {
		world.NodeClaims[i].Spec.NodeClassRef = ref
	}
}

// observe tells Karpenter's memory what its informers would have told it.
func (c *cluster) observe(ctx context.Context, world *World) error {
	for i := range world.NodeClaims {
		c.state.UpdateNodeClaim(&world.NodeClaims[i])
	}
	for i := range world.Nodes {
		if err := c.state.UpdateNode(ctx, &world.Nodes[i]); err != nil {
			return fmt.Errorf("node %s: %w", world.Nodes[i].Name, err)
		}
	}
	for i := range world.Pods {
		if err := c.state.UpdatePod(ctx, &world.Pods[i]); err != nil {
			return fmt.Errorf("pod %s: %w", world.Pods[i].Name, err)
		}
	}
	for i := range world.DaemonSets {
		if err := c.state.UpdateDaemonSet(ctx, &world.DaemonSets[i]); err != nil {
			return fmt.Errorf("daemon set %s: %w", world.DaemonSets[i].Name, err)
		}
	}
	return nil
}
