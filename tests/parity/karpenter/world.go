package main

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// World is one question: a cluster, the pods that wait in it, and what can be bought.
type World struct {
	Name string `json:"name"`
	// Runs is how often to decide it: Karpenter breaks some ties by chance.
	Runs int `json:"runs"`
	// SolveSeconds ends the solve early, with what it has by then; 0 lets it end by itself.
	SolveSeconds           float64                        `json:"solveSeconds"`
	PreferencePolicy       string                         `json:"preferencePolicy"`
	MinValuesPolicy        string                         `json:"minValuesPolicy"`
	WellKnownLabels        []string                       `json:"wellKnownLabels"`
	NormalizedLabels       map[string]string              `json:"normalizedLabels"`
	ReservationIDLabel     string                         `json:"reservationIDLabel"`
	ReservationLabels      []string                       `json:"reservationLabels"`
	Catalogue              []InstanceType                 `json:"catalogue"`
	InstanceTypesByPool    map[string][]string            `json:"instanceTypesByPool"`
	NodePools              []v1.NodePool                  `json:"nodePools"`
	NodeClaims             []v1.NodeClaim                 `json:"nodeClaims"`
	Nodes                  []corev1.Node                  `json:"nodes"`
	Pods                   []corev1.Pod                   `json:"pods"`
	DaemonSets             []appsv1.DaemonSet             `json:"daemonSets"`
	Namespaces             []corev1.Namespace             `json:"namespaces"`
	PersistentVolumeClaims []corev1.PersistentVolumeClaim `json:"persistentVolumeClaims"`
	PersistentVolumes      []corev1.PersistentVolume      `json:"persistentVolumes"`
	StorageClasses         []storagev1.StorageClass       `json:"storageClasses"`
	CSINodes               []storagev1.CSINode            `json:"csiNodes"`
}

// InstanceType is a type of the catalogue as the Python side writes it.
type InstanceType struct {
	Name         string            `json:"name"`
	Requirements []Rule            `json:"requirements"`
	Offerings    []Offering        `json:"offerings"`
	Capacity     map[string]string `json:"capacity"`
	Overhead     map[string]string `json:"overhead"`
	VolumeLimits map[string]int    `json:"volumeLimits"`
}

// Offering is one way to buy a type.
type Offering struct {
	Requirements        []Rule  `json:"requirements"`
	Price               float64 `json:"price"`
	Available           bool    `json:"available"`
	ReservationCapacity int     `json:"reservationCapacity"`
}

// Rule is a requirement on one label.
type Rule struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

func requirements(rules []Rule) scheduling.Requirements {
	found := scheduling.NewRequirements()
	for _, rule := range rules {
		found.Add(scheduling.NewRequirement(rule.Key, corev1.NodeSelectorOperator(rule.Operator), rule.Values...))
	}
	return found
}

func amounts(quantities map[string]string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for name, text := range quantities {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("resource %s: %q is no quantity: %w", name, text, err)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}

func (t InstanceType) build() (*cloudprovider.InstanceType, error) {
	capacity, err := amounts(t.Capacity)
	if err != nil {
		return nil, fmt.Errorf("instance type %s, capacity: %w", t.Name, err)
	}
	overhead, err := amounts(t.Overhead)
	if err != nil {
		return nil, fmt.Errorf("instance type %s, overhead: %w", t.Name, err)
	}
	built := &cloudprovider.InstanceType{
		Name:                   t.Name,
		Requirements:           requirements(t.Requirements),
		Capacity:               capacity,
		Overhead:               &cloudprovider.InstanceTypeOverhead{KubeReserved: overhead},
		VolumeAttachmentLimits: t.VolumeLimits,
	}
	for _, offering := range t.Offerings {
		built.Offerings = append(built.Offerings, &cloudprovider.Offering{
			Requirements:        requirements(offering.Requirements),
			Price:               offering.Price,
			Available:           offering.Available,
			ReservationCapacity: offering.ReservationCapacity,
		})
	}
	return built, nil
}

// instanceTypes returns what each pool can be made of. Every pool gets values of its own, as
// Karpenter's provider would hand them out.
func (w World) instanceTypes() (map[string][]*cloudprovider.InstanceType, error) {
	byPool := map[string][]*cloudprovider.InstanceType{}
	for pool, names := range w.InstanceTypesByPool {
		wanted := sets.New(names...)
		for _, one := range w.Catalogue {
			if !wanted.Has(one.Name) {
				continue
			}
			built, err := one.build()
			if err != nil {
				return nil, err
			}
			byPool[pool] = append(byPool[pool], built)
		}
		if len(byPool[pool]) != wanted.Len() {
			return nil, fmt.Errorf("pool %s: the catalogue lacks some of its %d instance types", pool, wanted.Len())
		}
	}
	return byPool, nil
}

// learnLabels makes the provider's labels known, as a provider does when it starts.
func (w World) learnLabels() {
	v1.WellKnownLabels = v1.WellKnownLabels.Insert(w.WellKnownLabels...)
	maps.Copy(v1.NormalizedLabels, w.NormalizedLabels)
	cloudprovider.ReservationIDLabel = w.ReservationIDLabel
	cloudprovider.ReservedCapacityLabels = sets.New(w.ReservationLabels...)
}

func pointers[T any, P interface {
	*T
	client.Object
}](items []T) []client.Object {
	found := make([]client.Object, 0, len(items))
	for i := range items {
		found = append(found, P(&items[i]))
	}
	return found
}

func (w World) objects() []client.Object {
	return slices.Concat(
		pointers(w.NodePools),
		pointers(w.NodeClaims),
		pointers(w.Nodes),
		pointers(w.Pods),
		pointers(w.DaemonSets),
		pointers(w.Namespaces),
		pointers(w.PersistentVolumeClaims),
		pointers(w.PersistentVolumes),
		pointers(w.StorageClasses),
		pointers(w.CSINodes),
	)
}
