package metrics

import "math"

// Assign returns the one-to-one matching of rows to columns with the largest sum of values, [n, n], as the column of each row. It is the Hungarian algorithm
// with potentials, in O(n³).
func Assign(values []int64, n int) []int {
	// Rows are added one after the other, each by the shortest augmenting path; columns and rows count from 1, and 0 stands for none.
	rowOf := make([]int, n+1)
	u, v := make([]float64, n+1), make([]float64, n+1)
	for row := 1; row <= n; row++ {
		rowOf[0] = row
		least, before, used := make([]float64, n+1), make([]int, n+1), make([]bool, n+1)
		for j := range least {
			least[j] = math.Inf(1)
		}
		column := 0
		for rowOf[column] != 0 {
			used[column] = true
			i, delta, next := rowOf[column], math.Inf(1), 0
			for j := 1; j <= n; j++ {
				if used[j] {
					continue
				}
				if cost := -float64(values[(i-1)*n+j-1]) - u[i] - v[j]; cost < least[j] {
					least[j], before[j] = cost, column
				}
				if least[j] < delta {
					delta, next = least[j], j
				}
			}
			for j := range used {
				if used[j] {
					u[rowOf[j]] += delta
					v[j] -= delta
				} else {
					least[j] -= delta
				}
			}
			column = next
		}
		for column != 0 {
			rowOf[column] = rowOf[before[column]]
			column = before[column]
		}
	}
	columnOf := make([]int, n)
	for column := 1; column <= n; column++ {
		columnOf[rowOf[column]-1] = column - 1
	}
	return columnOf
}
