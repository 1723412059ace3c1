package truth

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path string) {
	t.Helper()
	w, err := Create(path, Process{PID: 7, Program: "p"})
	require.NoError(t, err)
	w.Lane(Lane{Name: "gpu", Kind: "metal"})
	w.Dispatch(Dispatch{ID: 0xabc, Lane: "gpu", Name: "blur", StartNanos: 10, EndNanos: 30})
	w.Dispatch(Dispatch{ID: 0xabd, Lane: "gpu", Name: "blur", StartNanos: 30, EndNanos: 40, Fault: "x"})
	w.Verdict(Verdict{Dispatch: 0xabc, Class: "asynchronous"})
	w.Verdict(Verdict{Dispatch: 0xabc, Class: "synchronous", OwnedMin: 20, OwnedMax: 20})
	w.Wait(Wait{Number: 1, Name: "w"})
	e, err := w.Close(End{Reason: "duration"})
	require.NoError(t, err)
	require.EqualValues(t, 2, e.Dispatches)
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "truth.jsonl")
	write(t, path)
	f, err := Read(path)
	require.NoError(t, err)
	assert.Equal(t, 7, f.Process.PID)
	assert.Equal(t, "synchronous", f.Verdicts[0xabc].Class, "a later verdict replaces an earlier one")
	require.NotNil(t, f.End)
	assert.Equal(t, []LaneTotal{{Lane: "gpu", Count: 2, TotalNanos: 30}}, f.End.Lanes)
	assert.EqualValues(t, 1, f.End.Waits)
	assert.Equal(t, 3, f.Records())
	s := f.Summarise(func(d Dispatch) string { return d.Lane })["gpu"]
	assert.Equal(t, 1, s.Faulted)
	assert.Equal(t, []int64{10, 20, 20}, []int64{s.P50, s.P95, s.MaxNanos})
}

func TestTornPrefix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "truth.jsonl")
	write(t, path)
	all, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, cut := range []int{1, 5, 40, len(all) / 2} {
		require.NoError(t, os.WriteFile(path, all[:len(all)-cut], 0o600))
		f, err := Read(path)
		require.NoError(t, err, "cut %d", cut)
		assert.Nil(t, f.End)
	}
	require.NoError(t, os.WriteFile(path, append([]byte("{\"nope\":1}\n"), all...), 0o600))
	_, err = Read(path)
	assert.ErrorContains(t, err, path+":1")
}

func TestNoFile(t *testing.T) {
	w, err := Create("", Process{})
	require.NoError(t, err)
	w.Dispatch(Dispatch{Lane: "a"})
	e, err := w.Close(End{})
	require.NoError(t, err)
	assert.Equal(t, "a", e.Lanes[0].Lane)
}

func TestRank(t *testing.T) {
	v := make([]int64, 100)
	for i := range v {
		v[i] = int64(i + 1)
	}
	assert.Equal(t, []int64{50, 95, 99}, []int64{Rank(v, 50), Rank(v, 95), Rank(v, 99)})
	assert.Equal(t, int64(1), Rank(v[:1], 99))
}
