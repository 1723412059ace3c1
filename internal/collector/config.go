package collector

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// config returns the configuration as a yaml: URI.
func (o Options) config() (string, error) {
	if o.TargetSocket == "" && o.HTTPEndpoint == "" && o.GRPCEndpoint == "" && len(o.ExtraConfig) == 0 {
		return "", errors.New("collector: no endpoint for targets is set")
	}
	if o.Directory == "" && o.Manager != nil {
		o.Directory = o.Manager.Dir()
	}
	query := section{}
	if o.Directory != "" {
		dir, err := filepath.Abs(o.Directory)
		if err != nil {
			return "", fmt.Errorf("collector: directory %s: %w", o.Directory, err)
		}
		query["directory"] = text(dir)
	}
	switch {
	case o.QueryEndpoint != "":
		query["endpoint"] = text(o.QueryEndpoint)
		if o.ControlSocket != "" {
			query["control_socket"] = text(o.ControlSocket)
		}
	case o.ControlSocket != "":
		query["endpoint"], query["transport"] = text(o.ControlSocket), "unix"
	default:
		return "", errors.New("collector: no endpoint for the query API is set")
	}

	receivers := section{}
	if o.TargetSocket != "" {
		receivers["staxtarget"] = section{"protocols": section{"http": address("unix://" + o.TargetSocket)}}
	}
	protocols := section{}
	if o.HTTPEndpoint != "" {
		protocols["http"] = address(o.HTTPEndpoint)
	}
	if o.GRPCEndpoint != "" {
		protocols["grpc"] = address(o.GRPCEndpoint)
	}
	if len(protocols) > 0 {
		receivers["staxtarget/network"] = section{"protocols": protocols}
	}
	ids := slices.Sorted(maps.Keys(receivers))

	archive := section{}
	switch {
	case o.SyncInterval < 0:
		archive["sync_interval"] = "0s"
	case o.SyncInterval > 0:
		archive["sync_interval"] = o.SyncInterval.String()
	}
	if o.SegmentRows > 0 {
		archive["segment_rows"] = o.SegmentRows
	}
	if o.SegmentAge > 0 {
		archive["segment_age"] = o.SegmentAge.Round(time.Millisecond).String()
	}

	pipelines := section{}
	for _, signal := range []string{"traces", "metrics", "logs", "profiles"} {
		pipelines[signal] = section{"receivers": ids, "exporters": []string{"staxarchive"}}
	}
	b, err := json.Marshal(section{ // JSON is YAML
		"extensions": section{"staxquery": query},
		"receivers":  receivers,
		"exporters":  section{"staxarchive": archive},
		"service": section{
			"extensions": []string{"staxquery"},
			"telemetry":  section{"metrics": section{"level": "none"}},
			"pipelines":  pipelines,
		},
	})
	if err != nil {
		return "", fmt.Errorf("collector: %w", err)
	}
	return "yaml:" + string(b), nil
}

type section map[string]any

// address turns host:port or unix:///path into the keys of a server.
func address(endpoint string) section {
	if path, ok := strings.CutPrefix(endpoint, "unix://"); ok {
		return section{"endpoint": text(path), "transport": "unix"}
	}
	return section{"endpoint": text(endpoint)}
}

// text protects a value from the expansion of ${...}.
func text(s string) string { return strings.ReplaceAll(s, "$", "$$") }
