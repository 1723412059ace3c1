//go:build unix

package forward

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const prometheusConfig = `
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: stax
    honor_labels: true
    static_configs: [{targets: [%q]}]
`

// prometheusServer is a Prometheus that scrapes the collector.
type prometheusServer struct {
	*process
	http string
}

func startPrometheus(t *testing.T, http, target string) *prometheusServer {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, prometheusConfig, target), 0o600))
	p := &prometheusServer{http: http, process: start(t, nil, prometheus(t),
		"--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+http,
		"--enable-feature=exemplar-storage")}
	p.responds(http, "/-/ready")
	return p
}

func (p *prometheusServer) ask(path string, query url.Values, out any) {
	p.t.Helper()
	b, ok := get(p.t.Context(), p.http, path, query)
	require.True(p.t, ok, "%s", b)
	answer := struct {
		Data any `json:"data"`
	}{out}
	require.NoError(p.t, json.Unmarshal(b, &answer))
}

// values evaluates an expression; the result is keyed by one label.
func (p *prometheusServer) values(expression, label string) map[string]float64 {
	p.t.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
			Value  [2]any            `json:"value"`
		} `json:"result"`
	}
	p.ask("/api/v1/query", url.Values{"query": {expression}}, &data)
	out := map[string]float64{}
	for _, r := range data.Result {
		v, err := strconv.ParseFloat(r.Value[1].(string), 64)
		require.NoError(p.t, err)
		out[r.Metric[label]] = v
	}
	return out
}

// exemplar is one exemplar of a series.
type exemplar struct {
	series map[string]string
	labels map[string]string
	value  float64
}

func (p *prometheusServer) exemplars(expression string, from, to time.Time) (out []exemplar) {
	p.t.Helper()
	var data []struct {
		SeriesLabels map[string]string `json:"seriesLabels"`
		Exemplars    []struct {
			Labels map[string]string `json:"labels"`
			Value  string            `json:"value"`
		} `json:"exemplars"`
	}
	p.ask("/api/v1/query_exemplars", url.Values{
		"query": {expression}, "start": {from.UTC().Format(time.RFC3339)}, "end": {to.UTC().Format(time.RFC3339)},
	}, &data)
	for _, series := range data {
		for _, x := range series.Exemplars {
			v, err := strconv.ParseFloat(x.Value, 64)
			require.NoError(p.t, err)
			out = append(out, exemplar{series.SeriesLabels, x.Labels, v})
		}
	}
	return out
}
