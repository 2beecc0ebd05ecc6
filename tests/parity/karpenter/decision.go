package main

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

// workers is how many goroutines Karpenter's scheduler gets, as in its own benchmark.
const workers = 5

// Decision is what Karpenter decided about a world.
type Decision struct {
	Name       string            `json:"name"`
	Placements map[string]string `json:"placements"`
	Claims     []Claim           `json:"claims"`
	Errors     map[string]string `json:"errors"`
	// Ignored are pods that Karpenter does not even try, with what its validation says.
	Ignored map[string]string `json:"ignored"`
	// CutOff is whether the solve ran out of time.
	CutOff       bool    `json:"cutOff"`
	Failure      string  `json:"failure,omitempty"`
	SetupSeconds float64 `json:"setupSeconds"`
	SolveSeconds float64 `json:"solveSeconds"`
}

// Claim is a node that Karpenter would ask for.
type Claim struct {
	NodePool      string   `json:"nodePool"`
	Pods          []string `json:"pods"`
	InstanceTypes []string `json:"instanceTypes"`
	Requirements  []Rule   `json:"requirements"`
	Cheapest      Offer    `json:"cheapest"`
}

// Offer is the cheapest way to get a claim.
type Offer struct {
	InstanceType string  `json:"instanceType"`
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"price"`
}

func key(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func keys(pods []*corev1.Pod) []string {
	found := make([]string, 0, len(pods))
	for _, pod := range pods {
		found = append(found, key(pod))
	}
	return found
}

func settings(world *World) *options.Options {
	gates := options.DefaultFeatureGates()
	return &options.Options{
		CPURequests:       workers * 1000,
		PreferencePolicy:  options.PreferencePolicy(world.PreferencePolicy),
		MinValuesPolicy:   options.MinValuesPolicy(world.MinValuesPolicy),
		IgnoreDRARequests: true,
		FeatureGates:      gates,
	}
}

func solverOptions(world *World) []scheduling.Options {
	chosen := []scheduling.Options{
		scheduling.DisableReservedCapacityFallback,
		scheduling.NumConcurrentReconciles(workers),
		scheduling.MinValuesPolicy(options.MinValuesPolicy(world.MinValuesPolicy)),
	}
	if options.PreferencePolicy(world.PreferencePolicy) == options.PreferencePolicyIgnore {
		chosen = append(chosen, scheduling.IgnorePreferences)
	}
	return chosen
}

// decide answers one world. What stops Karpenter as a whole is the decision's failure.
func decide(ctx context.Context, world *World) Decision {
	decision := Decision{Name: world.Name, Placements: map[string]string{}, Errors: map[string]string{}}
	ctx = options.ToContext(ctx, settings(world))
	world.learnLabels()
	begun := time.Now()
	made, err := newCluster(ctx, world)
	if err != nil {
		decision.Failure = err.Error()
		return decision
	}
	nodes := made.state.DeepCopyNodes()
	pods, err := made.provisioner.GetPendingPods(ctx)
	if err != nil {
		decision.Failure = err.Error()
		return decision
	}
	decision.Ignored = untried(ctx, made, world, pods)
	scheduler, err := made.provisioner.NewScheduler(ctx, pods, nodes.Active(), sets.New[types.UID](), solverOptions(world)...)
	decision.SetupSeconds = time.Since(begun).Seconds()
	if err != nil {
		decision.Failure = err.Error()
		return decision
	}
	begun = time.Now()
	results, err := solve(ctx, scheduler, pods, world.SolveSeconds)
	decision.SolveSeconds = time.Since(begun).Seconds()
	decision.CutOff = errors.Is(err, context.DeadlineExceeded)
	if err != nil && !decision.CutOff {
		decision.Failure = err.Error()
		return decision
	}
	decision.fill(results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes))
	return decision
}

func solve(
	ctx context.Context, scheduler *scheduling.Scheduler, pods []*corev1.Pod, seconds float64,
) (scheduling.Results, error) {
	if seconds > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second)))
		defer cancel()
		ctx = limited
	}
	return scheduler.Solve(ctx, pods)
}

func untried(ctx context.Context, made *cluster, world *World, tried []*corev1.Pod) map[string]string {
	known := sets.New(keys(tried)...)
	missing := map[string]string{}
	for i := range world.Pods {
		pod := &world.Pods[i]
		if pod.Spec.NodeName != "" || known.Has(key(pod)) {
			continue
		}
		missing[key(pod)] = "it does not wait for a node"
		if err := made.provisioner.Validate(ctx, pod); err != nil {
			missing[key(pod)] = err.Error()
		}
	}
	return missing
}

func (d *Decision) fill(results scheduling.Results) {
	for _, node := range results.ExistingNodes {
		for _, pod := range node.Pods {
			d.Placements[key(pod)] = node.Name()
		}
	}
	for _, claim := range results.NewNodeClaims {
		d.Claims = append(d.Claims, Claim{
			NodePool:      claim.NodePoolName,
			Pods:          keys(claim.Pods),
			InstanceTypes: typeNames(claim),
			Requirements:  rules(claim),
			Cheapest:      cheapest(claim),
		})
	}
	for pod, err := range results.PodErrors {
		d.Errors[key(pod)] = err.Error()
	}
}

func typeNames(claim *scheduling.NodeClaim) []string {
	names := make([]string, 0, len(claim.InstanceTypeOptions))
	for _, one := range claim.InstanceTypeOptions.OrderByPrice(claim.Requirements) {
		names = append(names, one.Name)
	}
	return names
}

// rules returns what the claim must be, without the list of its types.
func rules(claim *scheduling.NodeClaim) []Rule {
	found := []Rule{}
	for _, one := range claim.Requirements.NodeSelectorRequirements() {
		if one.Key != corev1.LabelInstanceTypeStable {
			found = append(found, Rule{Key: one.Key, Operator: string(one.Operator), Values: one.Values})
		}
	}
	return found
}

func cheapest(claim *scheduling.NodeClaim) Offer {
	var best Offer
	for _, one := range claim.InstanceTypeOptions {
		fitting := one.Offerings.Launchable().Compatible(claim.Requirements)
		if len(fitting) == 0 {
			continue
		}
		offering := fitting.Cheapest()
		if best.InstanceType == "" || offering.Price < best.Price {
			best = Offer{
				InstanceType: one.Name,
				Zone:         offering.Zone(),
				CapacityType: offering.CapacityType(),
				Price:        offering.Price,
			}
		}
	}
	return best
}
